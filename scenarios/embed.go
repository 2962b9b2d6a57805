// Package scenarios embeds the shipped scenarios of fettle load scenario: one YAML file each,
// which names its source. Package requests/load/scenario runs them.
package scenarios

import "embed"

// FS contains the scenarios.
//
//go:embed *.yaml
var FS embed.FS
