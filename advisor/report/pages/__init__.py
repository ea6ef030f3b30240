"""The pages of the HTML report, one module per page or part of one."""
