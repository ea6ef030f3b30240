"""How a report looks: page, parts, one stylesheet, one small script."""
