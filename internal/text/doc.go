// Package text has small functions for texts: counted nouns and numbers, the nearest word
// to a misspelled one, cells of tables, plain messages of errors, and regular expressions
// that are compiled when they are first used.
package text
