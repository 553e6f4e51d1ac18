"""What a trained model does: translate, be scored, be exported (section 6.1)."""
