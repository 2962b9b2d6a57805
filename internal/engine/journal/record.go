// Package journal keeps an append-only file of transactions, whose before-images are durable
// before the first write, so that every value can be restored, even after kill -9 or a power
// failure.
package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// TxKind is the kind of a transaction.
type TxKind string

// The kinds of transaction.
const (
	Tune  TxKind = "tune"  // a selection of profiles came into force
	Apply TxKind = "apply" // single changes on top of the selection: a plan, a fix
	Undo  TxKind = "undo"  // earlier transactions were undone
	Boot  TxKind = "boot"  // the selection was applied again after a boot
)

// Begin opens a transaction.
type Begin struct {
	ID     int       `json:"id"`
	Kind   TxKind    `json:"kind"`
	Time   time.Time `json:"time"`
	BootID string    `json:"boot_id"`
	User   string    `json:"user"`
	PID    int       `json:"pid"`
	Reason string    `json:"reason"` // the command line, or what started it
	// Note is the reason that the caller gave (--reason), at most MaxNote bytes
	// and escaped.
	Note string `json:"note,omitempty"`
	// Caller is the caller according to the kernel; null in older records.
	Caller *host.Caller `json:"caller,omitempty"`
	// Planned records who saved the plan that is applied; null if it was not saved.
	Planned *Planned `json:"planned,omitempty"`
	// Selection is in force once this transaction is committed, in the format of package tune;
	// null if the selection does not change.
	Selection json.RawMessage `json:"selection,omitempty"`
	// Supersedes lists transactions that are undone together with this one from now on: the
	// same selection before a reboot.
	Supersedes []int `json:"supersedes,omitempty"`
	// Undoes lists the transactions that an undo undoes.
	Undoes []int `json:"undoes,omitempty"`
	// Restore lists the entries that an undo has begun to restore, and those of later
	// transactions that its writes may change as a side effect. From then on they count as ours
	// whatever their settings read.
	Restore []Ref `json:"restore,omitempty"`
	// Try is set for a trial, which is undone unless it is confirmed.
	Try *Try `json:"try,omitempty"`
	// Room is the expected size of the records that follow, in bytes; it is not
	// recorded.
	Room int64 `json:"-"`
}

// Planned records who saved a plan and when, according to the plan.
type Planned struct {
	By   string    `json:"by"`
	Time time.Time `json:"time"`
}

// MaxNote is the maximum length of the reason that a caller gives, in bytes.
const MaxNote = 500

// Try is the deadline of a transaction on trial: SinceBoot, or Until if the time since boot
// is not known. A new boot ends every trial.
type Try struct {
	Until     time.Time     `json:"until"`
	SinceBoot time.Duration `json:"since_boot_ns"`
	// Experiment is true for a phase of an experiment: it ends with the experiment and
	// cannot be confirmed.
	Experiment bool `json:"experiment,omitempty"`
}

// Ref identifies one entry of one transaction.
type Ref struct {
	Tx int `json:"tx"`
	N  int `json:"n"`
}

// Before is the before-image of one setting, in the stage that will write it.
type Before struct {
	N        int              `json:"n"` // unique within the transaction, from 1
	Setting  setting.Setting  `json:"setting"`
	Before   setting.Value    `json:"before"`
	Want     setting.Value    `json:"want"`
	Lifetime setting.Lifetime `json:"lifetime"`
	Reason   setting.Reason   `json:"reason,omitzero"`
	// CoupledTo is the entry whose write may change this setting; 0 for a setting that is
	// written itself.
	CoupledTo int `json:"coupled_to,omitempty"`
	// Foreign marks a setting that another program has changed since the previous
	// transaction.
	Foreign bool `json:"foreign,omitempty"`
	// Releases marks a value that is restored because the new selection no longer sets
	// it.
	Releases bool `json:"releases,omitempty"`
	// Outlives marks a setting that may leave effects when its boot ends, which its undo has to
	// clean up (setting.RebootCleaner).
	Outlives bool `json:"outlives,omitempty"`
	// Varies are the values that dynamic tuning may write without another record. Any of them
	// counts as left by fettle.
	Varies []setting.Value `json:"varies,omitempty"`
	// Activation is the program to reload or restart once the setting has its value, and
	// again when it is restored.
	Activation setting.Activation `json:"activation,omitzero"`
}

// Outcome is the value of a setting after the transaction's last write.
type Outcome struct {
	N       int           `json:"n"`
	After   setting.Value `json:"after"`
	Verdict string        `json:"verdict,omitempty"` // if the value is not as wanted
	Why     string        `json:"why,omitempty"`
}

// Commit closes a transaction.
type Commit struct {
	ID       int       `json:"id"`
	Time     time.Time `json:"time"`
	Result   string    `json:"result"` // done, partial, rolled-back, incomplete
	Outcomes []Outcome `json:"outcomes,omitempty"`
	Undone   []Undone  `json:"undone,omitempty"` // by an undo
	// Standing holds the values that an undo left in settings of later transactions.
	Standing []Standing `json:"standing,omitempty"`
}

// Standing is the value of a setting of a live transaction after the undo of an earlier one,
// whose writes changed the setting as a side effect: from then on it counts as the value that
// fettle left.
type Standing struct {
	Ref
	After setting.Value `json:"after"`
}

// EntryState is the state of an entry.
type EntryState string

// The states of an entry.
const (
	Live     EntryState = "live"
	Restored EntryState = "restored"
	Relinked EntryState = "relinked" // a later entry took over its before-image
	KeptNow  EntryState = "kept"     // another program has changed it since: left unchanged
	Closed   EntryState = "closed"   // its boot or task has ended
	Failed   EntryState = "failed"   // could not be restored; still live
)

func (s EntryState) known() bool {
	switch s {
	case Live, Restored, Relinked, KeptNow, Closed, Failed:
		return true
	}
	return false
}

// Undone is the result of an undo for one entry.
type Undone struct {
	Ref
	State EntryState    `json:"state"`
	Found setting.Value `json:"found"` // what was there when the undo began
	Why   string        `json:"why,omitempty"`
}

// Confirm makes a transaction on trial permanent.
type Confirm struct {
	ID   int       `json:"id"`
	Time time.Time `json:"time"`
	User string    `json:"user"`
	// Note and Caller are as in Begin.
	Note   string       `json:"note,omitempty"`
	Caller *host.Caller `json:"caller,omitempty"`
}

// record is one line of the file; exactly one field in addition to Seq is set.
type record struct {
	Seq     int64    `json:"seq"`
	Start   *start   `json:"start,omitempty"`
	Begin   *Begin   `json:"begin,omitempty"`
	Stage   *stage   `json:"stage,omitempty"`
	Commit  *Commit  `json:"commit,omitempty"`
	Confirm *Confirm `json:"confirm,omitempty"`
}

// start is the first record of a file: the numbers used in earlier files, and their
// transactions that are still live. Its Seq continues theirs.
type start struct {
	Version int       `json:"version"`
	NextID  int       `json:"next_id"`
	Carried []carried `json:"carried,omitempty"`
}

// carried is a transaction that was still live when the file with its records was rotated.
type carried struct {
	Begin       Begin          `json:"begin"`
	Commit      *Commit        `json:"commit"`
	Confirmed   bool           `json:"confirmed,omitempty"`
	ConfirmedBy *Confirm       `json:"confirmed_by,omitempty"`
	Superseded  int            `json:"superseded,omitempty"`
	UndoneBy    int            `json:"undone_by,omitempty"`
	Entries     []carriedEntry `json:"entries,omitempty"`
}

type carriedEntry struct {
	Before
	Orig    *setting.Value `json:"orig,omitempty"` // if it is not Before.Before
	After   *setting.Value `json:"after,omitempty"`
	Verdict string         `json:"verdict,omitempty"`
	Why     string         `json:"why,omitempty"`
	State   EntryState     `json:"state,omitempty"` // empty: live
	Undoing bool           `json:"undoing,omitempty"`
}

// stage is one batch of before-images of a transaction.
type stage struct {
	ID      int      `json:"id"`
	Entries []Before `json:"entries"`
}

var crcTable = sync.OnceValue(func() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) })

// encode returns the record as a line: the CRC-32C of the JSON text in eight hexadecimal
// digits, a space, the JSON text, a newline.
func (r record) encode() ([]byte, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	line := make([]byte, 0, len(body)+10)
	line = fmt.Appendf(line, "%08x ", crc32.Checksum(body, crcTable()))
	line = append(line, body...)
	return append(line, '\n'), nil
}

var errTorn = errors.New("record damaged")

// errNewer is returned for a valid record of an unknown kind. Ignoring it would undo less than
// was done.
var errNewer = errors.New("written by a newer version of fettle; undo it with that version")

func decode(line []byte) (record, error) {
	var r record
	if len(line) < 10 || line[8] != ' ' {
		return r, errTorn
	}
	sum, err := strconv.ParseUint(string(line[:8]), 16, 32)
	body := line[9:]
	if err != nil || uint32(sum) != crc32.Checksum(body, crcTable()) {
		return r, errTorn
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return r, fmt.Errorf("%w: %w", errTorn, err)
	}
	if r.Start == nil && r.Begin == nil && r.Stage == nil && r.Commit == nil && r.Confirm == nil {
		return r, fmt.Errorf("record %d: %w", r.Seq, errNewer)
	}
	return r, nil
}

// maxLegible is the maximum number of settings of a damaged record that are listed.
const maxLegible = 50

// legible lists the settings that a damaged record of before-images seems to name, for a user
// who has to check them, or "". Nothing else of such a record is used.
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
