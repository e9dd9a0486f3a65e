"""From evidence to pages: sections say what a report holds, renderers how it looks."""
