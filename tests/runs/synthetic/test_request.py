"""The request of a run whose pairs models make is read as it was written, and refused if it is of another version."""

import pytest

from dragoman.errors import DataError
from dragoman.runs.synthetic.request import SyntheticRunRequest
from dragoman.storage.run_directory import RunDirectory
from dragoman.system.seals import write_sealed

REQUEST = {"how": "distill", "paths": ["a.tsv"], "recipe": "edge", "options": {}, "files": {}}


@pytest.fixture
def folder(tmp_path):
    RunDirectory(tmp_path).synthetic.mkdir(parents=True)
    return tmp_path


def test_settings_and_changes_are_trees_and_later_ones_count(folder):
    request = SyntheticRunRequest(**REQUEST, settings={"training": {"max_steps": 3}})
    request.save(folder)
    assert SyntheticRunRequest.read(folder) == request
    changed = request.with_changes(folder, {"training": {"max_steps": 5}})
    assert changed.settings == {"training": {"max_steps": 5}}
    assert SyntheticRunRequest.read(folder).changed == {"training": {"max_steps": 5}}


def test_a_request_of_an_older_version_is_refused_in_words(folder):
    old = REQUEST | {"settings": ["training.max_steps=3"], "version": "0.0.9", "changed": []}
    write_sealed(RunDirectory(folder).synthetic / "asked.json", old)
    with pytest.raises(DataError, match="was begun by an older version of Dragoman; begin anew"):
        SyntheticRunRequest.read(folder)


def test_secrets_of_urls_are_forgotten_when_the_pairs_have_been_read(folder):
    url = "https://user:word@example.org/a.tsv?X-Amz-Signature=7"
    request = SyntheticRunRequest(**REQUEST | {"paths": [url]}, settings={"data": {"valid": [url]}})
    request.save(folder)
    assert SyntheticRunRequest.read(folder).paths == [url]  # with which the pairs are fetched again
    SyntheticRunRequest.forget_secrets(folder)
    content = (RunDirectory(folder).synthetic / "asked.json").read_text()
    assert "word" not in content
    assert "Signature" not in content
    assert SyntheticRunRequest.read(folder).without_secrets() == request.without_secrets()
