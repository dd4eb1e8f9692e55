// Package lint holds the rules of the repository as tests: imports go downward, packages are documented, files are
// formatted. It contains no code besides.
package lint
