"""What users type for trained models: ``allelse translate``, ``evaluate``, ``export`` and
``attention``."""
