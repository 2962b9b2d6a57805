// Package profiles holds fettle's own profiles, in TuneD's language, written
// from published values. Every value line has its source in the comment above
// it; README.md lists the sources. A profile that TuneD has installed wins over
// one of the same name here.
package profiles

import "embed"

// FS holds one directory per profile with its tuned.conf, and recommend.conf,
// which is used where TuneD has installed no recommendation of its own.
//
//go:embed */tuned.conf recommend.conf
var FS embed.FS
