"""Every chart, drawn once by matplotlib, which is loaded by the first that is drawn."""
