"""What a study shows beyond its means: tests over seeds and sentences, verdicts, comparisons."""
