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

// ledgerName is the file in which Write remembers what it has written, so that a
// later run knows its own files from those of others.
const ledgerName = "/.fettle-size.json"

// ledger is what Write has put into a directory, by the path of each file.
type ledger struct {
	Schema string `json:"schema"` // fettle/size-ledger/v1
	// Files is the SHA-256 of every content that Write has put, or was about to put,
	// into a file.
	Files map[string][]string `json:"files"`
	// Owners are the plans that a file is of: "satellite". One without an owner stays
	// when a plan has it no more.
	Owners map[string][]string `json:"owners,omitempty"`
}

func sum(text []byte) string {
	s := sha256.Sum256(text)
	return hex.EncodeToString(s[:])
}

// knows is true of a content that Write has put into a file.
func (l *ledger) knows(name string, text []byte) bool {
	return slices.Contains(l.Files[name], sum(text))
}

// others are the owners of a file beside one.
func (l *ledger) others(name, owner string) []string {
	return slices.DeleteFunc(slices.Clone(l.Owners[name]), func(o string) bool { return o == owner })
}

// own makes a plan the owner of a file, with others where there are some.
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

// forget takes a file out.
func (l *ledger) forget(name string) {
	delete(l.Files, name)
	delete(l.Owners, name)
}

// former are the files of a plan that it has no more, sorted.
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
			return nil, fmt.Errorf("%s: %w: move it away, and the files that fettle wrote with it", path.Base(ledgerName), err)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for name := range led.Owners {
		// What is in it may be removed.
		if inner, ok := strings.CutPrefix(name, "/"); !ok || !isInside(inner) {
			return nil, fmt.Errorf("%s: %q is not below the directory: move it away, and the files that fettle wrote with it", path.Base(ledgerName), name)
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
