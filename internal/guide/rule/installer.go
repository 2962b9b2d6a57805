package rule

import (
	"strings"

	"fettle.dev/fettle/internal/text"
)

// Installer is the artefact whose entries are options of satellite-installer. The
// command of such a fix is the call itself, and what is to follow it.
const Installer = "installer"

// InstallerCall is one call of the installer with options: it takes minutes, and
// restarts everything, so that all of them belong into one.
func InstallerCall(options []Entry) string {
	var b strings.Builder
	b.WriteString("satellite-installer")
	for _, o := range options {
		b.WriteString(" " + text.Quote(o.Name) + " " + text.Quote(o.Value))
	}
	return b.String()
}
