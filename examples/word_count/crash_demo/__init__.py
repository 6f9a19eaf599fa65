"""The parts of `demo.py`: a word count whose worker and driver are killed, and the proof that nothing was lost."""
