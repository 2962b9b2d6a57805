// Package journal keeps an append-only file of transactions. Before-images are durable before the
// first write. Every value can therefore be restored, even after kill -9 or a power failure.
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

// Begin is the record that opens a transaction.
type Begin struct {
	ID     int       `json:"id"`
	Kind   TxKind    `json:"kind"`
	Time   time.Time `json:"time"`
	BootID string    `json:"boot_id"`
	User   string    `json:"user"`
	PID    int       `json:"pid"`
	Reason string    `json:"reason"` // the command line, or the event that started it
	// Note is the caller's reason (--reason), escaped, at most MaxNote bytes.
	Note string `json:"note,omitempty"`
	// Caller is the calling process and user according to the kernel; null in older records.
	Caller *host.Caller `json:"caller,omitempty"`
	// Planned records who saved the applied plan; null if it was not saved.
	Planned *Planned `json:"planned,omitempty"`
	// Selection is the selection in force once this transaction is committed, in package tune's
	// format; null if it does not change.
	Selection json.RawMessage `json:"selection,omitempty"`
	// Supersedes lists transactions of the same selection, such as from before a reboot. An undo
	// of this transaction also undoes them.
	Supersedes []int `json:"supersedes,omitempty"`
	// Undoes lists the transactions that an undo undoes.
	Undoes []int `json:"undoes,omitempty"`
	// Restore lists the entries that an undo has begun to restore, and entries of later
	// transactions that its writes may change as a side effect. From then on every
	// value of their settings counts as fettle's.
	Restore []Ref `json:"restore,omitempty"`
	// Try is set for a trial: it is undone unless confirmed in time.
	Try *Try `json:"try,omitempty"`
	// Refused are the values that the transaction did not write because keep.d, a compliance rule or
	// fettle itself refused them; at most MaxRefused. Older versions ignore it.
	Refused []Refused `json:"refused,omitempty"`
	// Saved is the file of the saved settings, if the transaction writes it.
	Saved *SavedFile `json:"saved,omitempty"`
	// TuneD are TuneD's state files as the transaction found them, if it has a selection. Null in
	// older records.
	TuneD *TunedFiles `json:"tuned,omitempty"`
	// Room is the expected size in bytes of the transaction's further records; it is not recorded.
	Room int64 `json:"-"`
}

// SavedFile is the file of the saved settings as a transaction found it and as it writes it.
type SavedFile struct {
	Path   string        `json:"path"`
	Before setting.Value `json:"before"`
	Text   string        `json:"text"`
	// Made lists the directories that the transaction makes for the file, the outermost first.
	Made []string `json:"made,omitempty"`
}

// TunedFiles are TuneD's state files, which a daemon that replaces TuneD writes.
type TunedFiles struct {
	// Texts are by path. A file that it does not have did not exist.
	Texts map[string]string `json:"texts,omitempty"`
	// NoDir reports that their directory did not exist.
	NoDir bool `json:"no_dir,omitempty"`
}

// Planned records who saved a plan and when, according to the plan.
type Planned struct {
	By   string    `json:"by"`
	Time time.Time `json:"time"`
}

// Refused is a value that was not written. It needs no undo.
type Refused struct {
	Setting setting.Setting `json:"setting"`
	Want    setting.Value   `json:"want"`
	Why     string          `json:"why"` // at most MaxNote bytes
}

// MaxRefused is the maximum number of refused values in one record.
const MaxRefused = 200

// MaxNote is the maximum length of a caller's reason, in bytes.
const MaxNote = 500

// Try is the deadline of a trial: SinceBoot, or Until if the time since boot is unknown. A new
// boot ends every trial.
type Try struct {
	Until     time.Time     `json:"until"`
	SinceBoot time.Duration `json:"since_boot_ns"`
	// Experiment marks a phase of an experiment. The phase ends with the experiment and
	// cannot be confirmed.
	Experiment bool `json:"experiment,omitempty"`
}

// Ref identifies one entry of one transaction.
type Ref struct {
	Tx int `json:"tx"`
	N  int `json:"n"`
}

// Before is the before-image of one setting, recorded in the stage that writes the setting.
type Before struct {
	N        int              `json:"n"` // unique within the transaction, from 1
	Setting  setting.Setting  `json:"setting"`
	Before   setting.Value    `json:"before"`
	Want     setting.Value    `json:"want"`
	Lifetime setting.Lifetime `json:"lifetime"`
	Reason   setting.Reason   `json:"reason,omitzero"`
	// CoupledTo is the entry whose write may change this setting; 0 if the transaction writes this
	// setting itself.
	CoupledTo int `json:"coupled_to,omitempty"`
	// Foreign marks a setting that another program has changed since the previous
	// transaction.
	Foreign bool `json:"foreign,omitempty"`
	// Releases marks a value that is restored because the new selection no longer sets the
	// setting.
	Releases bool `json:"releases,omitempty"`
	// Outlives marks a setting that may leave effects after its boot ends; the undo cleans them up
	// (setting.RebootCleaner).
	Outlives bool `json:"outlives,omitempty"`
	// Varies are the values that dynamic tuning may write without further records. Each of them
	// counts as fettle's.
	Varies []setting.Value `json:"varies,omitempty"`
	// Activation is the program to reload or restart after the setting is written, and again after
	// it is restored.
	Activation setting.Activation `json:"activation,omitzero"`
}

// Outcome is the value of a setting after the transaction's last write.
type Outcome struct {
	N       int           `json:"n"`
	After   setting.Value `json:"after"`
	Verdict string        `json:"verdict,omitempty"` // set if the value is not as wanted
	Why     string        `json:"why,omitempty"`
}

// Commit is the record that closes a transaction.
type Commit struct {
	ID       int       `json:"id"`
	Time     time.Time `json:"time"`
	Result   string    `json:"result"` // done, partial, rolled-back, incomplete
	Outcomes []Outcome `json:"outcomes,omitempty"`
	Undone   []Undone  `json:"undone,omitempty"` // results of an undo
	// Standing holds values of later transactions' settings after this undo.
	Standing []Standing `json:"standing,omitempty"`
}

// Standing is the value of a live transaction's setting after the undo of an earlier transaction
// changed it as a side effect. From then on it counts as the value that fettle left.
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
	Relinked EntryState = "relinked" // a later entry inherited its before-image
	KeptNow  EntryState = "kept"     // another program has changed the setting since: left unchanged
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
	Found setting.Value `json:"found"` // value when the undo began
	Why   string        `json:"why,omitempty"`
}

// Confirm is the record that makes a trial permanent.
type Confirm struct {
	ID   int       `json:"id"`
	Time time.Time `json:"time"`
	User string    `json:"user"`
	// Note and Caller are as in Begin.
	Note   string       `json:"note,omitempty"`
	Caller *host.Caller `json:"caller,omitempty"`
}

// record is one line of the file. Exactly one field other than Seq is set.
type record struct {
	Seq     int64    `json:"seq"`
	Start   *start   `json:"start,omitempty"`
	Begin   *Begin   `json:"begin,omitempty"`
	Stage   *stage   `json:"stage,omitempty"`
	Commit  *Commit  `json:"commit,omitempty"`
	Confirm *Confirm `json:"confirm,omitempty"`
}

// start is the first record of a rotated file: the numbers used by earlier files, and their live
// transactions. Its Seq continues theirs.
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
	Orig    *setting.Value `json:"orig,omitempty"` // set if it differs from Before.Before
	After   *setting.Value `json:"after,omitempty"`
	Verdict string         `json:"verdict,omitempty"`
	Why     string         `json:"why,omitempty"`
	State   EntryState     `json:"state,omitempty"` // "" means live
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

// errNewer is returned for a valid record of an unknown kind: ignoring it would leave changes that
// are never undone.
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

// maxLegible is the maximum number of settings listed for a damaged record.
const maxLegible = 50

// legible lists the settings that a damaged record of before-images seems to name, so that a user
// can check them. It returns "" if it finds none. fettle uses nothing else of such a record.
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
