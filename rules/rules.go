// Package rules embeds the catalogue: rules, tables and evidence as data, each
// with its source.
package rules

import "embed"

// FS holds the catalogue's files.
//
//go:embed *.yaml
var FS embed.FS
