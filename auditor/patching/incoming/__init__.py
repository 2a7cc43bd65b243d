"""What people carry (diffs, mails, folders, scripts) made into patches of a patchset."""
