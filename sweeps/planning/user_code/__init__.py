"""The user's code: the files that belong to a study, their versions, and where they come from."""
