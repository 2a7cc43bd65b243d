"""One renderer per format, each from a report and nothing else."""
