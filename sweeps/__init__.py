"""The platform: a task's rows are composed, planned, run on Ray or here, and shown. It knows no task of ours."""
