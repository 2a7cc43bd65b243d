"""Scripts that replace text: read as data where they are plain, never run."""
