"""Text for people: wrapped to the terminal (`console`), and tables for notebooks (`html`)."""
