"""Where source comes from: commits, working trees, wheels, releases, installed copies, remotes, overlays.

``open_tree`` (``open.py``) picks a source; ``SourceTree`` and ``TreeInfo`` (``base.py``) are what other
rooms use. ``git.py`` alone starts ``git``. Error codes of this room:

- T001 path missing, or not a repository
- T002 unknown commit
- T003 ambiguous abbreviation
- T004 the tree is not of the audited project (its marker file is missing)
- T005 objects missing: a shallow or partial clone
- T006 unreadable or corrupt archive
- T007 archive or installed copy of another project
- T008 unsafe archive: path names, duplicates, sizes
- T009 release not found, or pip failed
- T010 network or remote failure
- T011 no installed copy
- T012 options that exclude each other
- T013 git missing or failed
- T014 disk trouble: unreadable file, no space, no permission
- T015 an argument that cannot be a revision, path or URL
"""
