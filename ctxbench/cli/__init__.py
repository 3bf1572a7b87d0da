"""The command line: parse, call one public function, print. Data on stdout, progress and errors on stderr."""
