"""An inference engine as arithmetic: what is scheduled when, and what it costs."""
