"""What users type for trained models: ``allelse translate``, ``evaluate`` and ``export``."""
