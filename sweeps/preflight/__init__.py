"""What is looked at before anything starts: places, the tracking store, the nodes. Nothing here leaves a file."""
