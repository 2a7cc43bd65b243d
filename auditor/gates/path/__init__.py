"""The dossier of ``audit path``: what the start of a server decides for one model."""
