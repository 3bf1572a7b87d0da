"""Labelling by logs and by a person: questions, estimates from answers, and corrections."""
