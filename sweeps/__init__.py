"""The platform composes, plans, runs and shows the rows of a task. It knows no task of ours."""
