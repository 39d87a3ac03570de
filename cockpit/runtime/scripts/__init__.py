"""Parts that the scripts of several rooms have in common; ``cockpit.runtime.script_text`` puts them in."""
