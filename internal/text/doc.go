// Package text formats and checks short texts for output: counts with nouns,
// table cells, shell words, messages without Go names, spelling suggestions. It
// also compiles regular expressions on first use.
package text
