package sizing

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/host"
)

// ledgerName is the file in which Write records its files. A later run can then distinguish its
// own files from others.
const ledgerName = "/.fettle-size.json"

// ledger records the files that Write wrote into a directory, by path.
type ledger struct {
	Schema string `json:"schema"` // fettle/size-ledger/v1
	// Files has the SHA-256 of each content that Write wrote, or was about to write.
	Files map[string][]string `json:"files"`
	// Owners has the plans that a file belongs to, such as "satellite". A file without an owner is
	// never removed.
	Owners map[string][]string `json:"owners,omitempty"`
}

func sum(text []byte) string {
	s := sha256.Sum256(text)
	return hex.EncodeToString(s[:])
}

// knows reports whether Write wrote this content.
func (l *ledger) knows(name string, text []byte) bool {
	return slices.Contains(l.Files[name], sum(text))
}

// others returns the owners of a file except one.
func (l *ledger) others(name, owner string) []string {
	return slices.DeleteFunc(slices.Clone(l.Owners[name]), func(o string) bool { return o == owner })
}

// own sets the owners of a file to the given plan and the others.
func (l *ledger) own(name, owner string, others []string) {
	all := slices.Clone(others)
	if owner != "" && !slices.Contains(all, owner) {
		all = append(all, owner)
	}
	if len(all) == 0 {
		delete(l.Owners, name)
		return
	}
	l.Owners[name] = all
}

// forget removes a file from the ledger.
func (l *ledger) forget(name string) {
	delete(l.Files, name)
	delete(l.Owners, name)
}

// former returns, sorted, the files that a plan had earlier but has no longer.
func (l *ledger) former(owner string, now []string) []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(l.Owners)) {
		if owner != "" && slices.Contains(l.Owners[name], owner) && !slices.Contains(now, name) {
			all = append(all, name)
		}
	}
	return all
}

func (l *ledger) text() ([]byte, error) {
	text, err := json.MarshalIndent(l, "", "  ")
	return append(text, '\n'), err
}

func readLedger(files host.Files) (*ledger, error) {
	led := &ledger{Schema: "fettle/size-ledger/v1"}
	text, err := files.ReadFile(ledgerName)
	if err == nil {
		if err := json.Unmarshal(text, led); err != nil {
			return nil, fmt.Errorf("%s: %w; move this record away, together with the files that fettle wrote", path.Base(ledgerName), err)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for name := range led.Owners {
		// Write may remove the files in the ledger.
		if inner, ok := strings.CutPrefix(name, "/"); !ok || !isInside(inner) {
			return nil, fmt.Errorf("%s: %q is not below the directory; move this record away, together with the files that fettle wrote", path.Base(ledgerName), name)
		}
	}
	if led.Files == nil {
		led.Files = map[string][]string{}
	}
	if led.Owners == nil {
		led.Owners = map[string][]string{}
	}
	return led, nil
}
