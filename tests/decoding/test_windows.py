"""Windows of a stream: no text is lost or moved, none waits for more than a window, and slow readers wait for one."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.decoding.windows import WINDOW_CHARACTERS, in_growing_windows, windows


@given(st.lists(st.none() | st.text(max_size=3)), st.integers(1, 5))
def test_windows_hold_all_texts_in_order_and_end_where_texts_do(texts: list[str | None], window: int) -> None:
    together = list(windows(texts, window))
    assert [text for part in together for text in part] == [text for text in texts if text is not None]
    assert all(1 <= len(part) <= window for part in together)


def test_a_window_ends_at_none_and_after_many_characters() -> None:
    long = "x" * WINDOW_CHARACTERS
    assert list(windows(["a", None, None, "b", long, "c", "d", "e"], 3)) == [["a"], ["b", long], ["c", "d", "e"]]


@pytest.mark.parametrize(("seconds", "sizes"), [(2, [1, 2, 4, 4, 2]), (0.5, [1] * 13)])
def test_growing_windows_double_unless_reading_takes_longer(
    monkeypatch: pytest.MonkeyPatch, seconds: float, sizes: list[int]
) -> None:
    now = 0.0
    monkeypatch.setattr("dragoman.decoding.windows.time.monotonic", lambda: now)
    texts = [f"text {index}" for index in range(13)]

    def read() -> Iterator[str]:
        nonlocal now
        for text in texts:
            now += 0.25
            yield text

    together: list[list[str]] = []

    def translated(part: list[str], first: int) -> list[str]:
        nonlocal now
        assert part == texts[first : first + len(part)]
        together.append(part)
        now += seconds * 0.25 * len(part)
        return part

    assert list(in_growing_windows(read(), 4, translated)) == texts
    assert [len(part) for part in together] == sizes


def test_nothing_is_translated_where_nothing_is_read() -> None:
    assert list(in_growing_windows([], 4, lambda texts, first: [f"{first} {texts}"])) == []
