package journal

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"fettle.dev/fettle/internal/setting"
)

// maxLegible bounds how many places of a damaged record are named.
const maxLegible = 50

// legible says which places a damaged record of before-images seems to name, for
// a person who has to look at them; "" where none can be read. Nothing else is
// believed of such a record.
func legible(line []byte) string {
	var names []string
	more := 0
	for i, part := range bytes.Split(line, []byte(`"setting":"`)) {
		end := bytes.IndexByte(part, '"')
		if i == 0 || end < 0 {
			continue
		}
		name := string(part[:end])
		if _, err := setting.Parse(name); err != nil || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) || r == '\\' }) || slices.Contains(names, name) {
			continue
		}
		if len(names) == maxLegible {
			more++
			continue
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return ""
	}
	text := " (it seems to have held " + strings.Join(names, ", ")
	if more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text + ")"
}
