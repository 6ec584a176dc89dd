# Copyright 2026 The servecore Authors
# SPDX-License-Identifier: Apache-2.0
"""A file that setuptools reads when it is imported, and pip_parse leaves out."""

# Its name has a space, and py_library's glob takes none such.
SETUPTOOLS_DATA = ["site-packages/setuptools/_vendor/jaraco/text/Lorem ipsum.txt"]
