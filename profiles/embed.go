// Package profiles embeds fettle's own profiles, written in TuneD's language
// from published values. Each value has its source in the comment above it;
// README.md lists the sources. An installed TuneD profile of the same name
// takes precedence.
package profiles

import "embed"

// FS holds one directory per profile with its tuned.conf, and recommend.conf,
// which is used where TuneD has installed no recommendation of its own.
//
//go:embed */tuned.conf recommend.conf
var FS embed.FS
