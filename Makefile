# The same without make: python3 tools/bootstrap.py VERB.
# More arguments: make test ARGS="-k attention"
PYTHON ?= python3

help:  ## list these targets
	@awk -F ':  ## ' '/^[a-z-]+:  ## / {printf "make %-11s %s\n", $$1, $$2}' Makefile

demo:  ## set up, then train a small translator and try it
	@$(PYTHON) tools/bootstrap.py demo $(ARGS)

test:  ## set up, then check style and types and run the quick tests
	@$(PYTHON) tools/bootstrap.py test $(ARGS)

test-lowest:  ## test with the lowest versions of all libraries, in build/; TORCH=cpu spares 3 GB
	@$(PYTHON) tools/bootstrap.py test-lowest $(ARGS)

test-newest:  ## test with the newest versions of all libraries, in build/
	@$(PYTHON) tools/bootstrap.py test-newest $(ARGS)

slow:  ## set up, then run the tests that take minutes
	@$(PYTHON) tools/bootstrap.py slow $(ARGS)

lint:  ## set up, then check style and types only
	@$(PYTHON) tools/bootstrap.py lint $(ARGS)

docs:  ## set up, then write what of docs/ follows from the code
	@$(PYTHON) tools/bootstrap.py docs $(ARGS)

walk:  ## set up, then run the pages of docs/walk/ and write what they print
	@$(PYTHON) tools/bootstrap.py walk $(ARGS)

site:  ## set up, then build docs/ as a website in build/site/, links checked
	@$(PYTHON) tools/bootstrap.py site $(ARGS)

colab:  ## set up, then build the wheel and the walk's notebooks for Google Colab, in dist/
	@$(PYTHON) tools/bootstrap.py colab $(ARGS)

install:  ## set up only; extras by name: make install ARGS=hf
	@$(PYTHON) tools/bootstrap.py install $(ARGS)

clean:  ## remove .venv, build results and caches; keeps runs/
	@$(PYTHON) tools/bootstrap.py clean

.PHONY: help demo test test-lowest test-newest slow lint docs walk site colab install clean
