"""Pages of HTML: one file each, that fetches nothing."""
