"""Three versions of a file merged: by statement, by token, by line."""
