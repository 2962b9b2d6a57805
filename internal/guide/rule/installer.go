package rule

import (
	"strings"

	"fettle.dev/fettle/internal/text"
)

// Installer is the Artefact of a fix whose entries are options of satellite-installer. The fix's
// command is its call and the commands after it.
const Installer = "installer"

// InstallerCall returns one call of the installer with all options: each call takes minutes and
// restarts everything.
func InstallerCall(options []Entry) string {
	var b strings.Builder
	b.WriteString("satellite-installer")
	for _, o := range options {
		b.WriteString(" " + text.Quote(o.Name) + " " + text.Quote(o.Value))
	}
	return b.String()
}
