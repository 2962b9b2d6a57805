// Package journal keeps what was there before: an append-only file of
// transactions whose before-images are durable before the first write, so that
// every value can be given back, also after kill -9 or a power cut.
package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"sync"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// TxKind says what kind of doing a transaction records.
type TxKind string

// The kinds of transaction.
const (
	Tune  TxKind = "tune"  // a selection of profiles came into force
	Apply TxKind = "apply" // single changes beside the selection: a plan, a fix
	Undo  TxKind = "undo"  // earlier transactions were taken back
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
	Reason string    `json:"reason"` // the command line, or who asked
	// Note is the reason that the caller gave (--reason), at most MaxNote bytes
	// and escaped.
	Note string `json:"note,omitempty"`
	// Caller is who asked, as the kernel knows it; null in older records.
	Caller *host.Caller `json:"caller,omitempty"`
	// Planned is who made the saved plan that is applied; null without one.
	Planned *Planned `json:"planned,omitempty"`
	// Selection is what is in force once this transaction is committed, as
	// package tune writes it; null where the selection does not change.
	Selection json.RawMessage `json:"selection,omitempty"`
	// Supersedes names transactions that this one stands for from now on: the
	// same selection before a reboot. Undoing this one undoes them too.
	Supersedes []int `json:"supersedes,omitempty"`
	// Undoes lists the transactions that an undo takes back.
	Undoes []int `json:"undoes,omitempty"`
	// Restore lists the entries that an undo has begun to take back, and those
	// of later transactions whose places its writes may change on the way. From
	// here on they count as ours whatever they read.
	Restore []Ref `json:"restore,omitempty"`
	// Try is set when the transaction undoes itself unless it is confirmed.
	Try *Try `json:"try,omitempty"`
	// Room is what the records that follow will take, in bytes, as far as that
	// is known beforehand; it is not recorded.
	Room int64 `json:"-"`
}

// Planned is where a saved plan is from, as the plan itself says.
type Planned struct {
	By   string    `json:"by"`
	Time time.Time `json:"time"`
}

// MaxNote bounds the reason that a caller gives, in bytes as given.
const MaxNote = 500

// Try is the deadline of a transaction on trial. SinceBoot counts where the
// boot is still the same; a new boot ends every trial.
type Try struct {
	Until     time.Time     `json:"until"`
	SinceBoot time.Duration `json:"since_boot_ns"`
	// Experiment is true for a visit of an experiment: it ends with that, and nobody
	// can confirm it.
	Experiment bool `json:"experiment,omitempty"`
}

// Ref names one entry of one transaction.
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
	// CoupledTo is the entry whose write may change this place; 0 for a place
	// that is itself written.
	CoupledTo int `json:"coupled_to,omitempty"`
	// Foreign marks a place that did not read any more as the transaction
	// before had left it: somebody changed it in between.
	Foreign bool `json:"foreign,omitempty"`
	// Releases marks a value that goes back because the new selection no
	// longer sets it.
	Releases bool `json:"releases,omitempty"`
	// Outlives marks a place that may leave something behind when its boot
	// ends, which its undo has to take back (setting.RebootCleaner).
	Outlives bool `json:"outlives,omitempty"`
	// Varies is set for a place that follows the load: the values that the
	// daemon may put there without writing anything more into the journal. Any
	// of them counts as left by fettle.
	Varies []setting.Value `json:"varies,omitempty"`
	// Activation is what has to be told once the place has its value, and again
	// when it goes back.
	Activation setting.Activation `json:"activation,omitzero"`
}

// Outcome is what a place read after the transaction's last write.
type Outcome struct {
	N       int           `json:"n"`
	After   setting.Value `json:"after"`
	Verdict string        `json:"verdict,omitempty"` // where it is not what was wanted
	Why     string        `json:"why,omitempty"`
}

// Commit closes a transaction.
type Commit struct {
	ID       int       `json:"id"`
	Time     time.Time `json:"time"`
	Result   string    `json:"result"` // done, partial, rolled-back, incomplete
	Outcomes []Outcome `json:"outcomes,omitempty"`
	Undone   []Undone  `json:"undone,omitempty"` // by an undo
	// Standing is what an undo has left in places of later transactions.
	Standing []Standing `json:"standing,omitempty"`
}

// Standing is what a place of a transaction that stands reads once another one
// below it has been undone, whose writes changed that place on the way: from then
// on that is what fettle left there.
type Standing struct {
	Ref
	After setting.Value `json:"after"`
}

// EntryState says what has become of an entry.
type EntryState string

// The states of an entry.
const (
	Live     EntryState = "live"
	Restored EntryState = "restored"
	Relinked EntryState = "relinked" // a later entry took over its before-image
	KeptNow  EntryState = "kept"     // somebody has changed it since: left as it is
	Closed   EntryState = "closed"   // the boot, or the task, that had it has ended
	Failed   EntryState = "failed"   // could not be written back; still live
)

func (s EntryState) known() bool {
	switch s {
	case Live, Restored, Relinked, KeptNow, Closed, Failed:
		return true
	}
	return false
}

// Undone is what an undo did with one entry.
type Undone struct {
	Ref
	State EntryState    `json:"state"`
	Found setting.Value `json:"found"` // what was there when the undo began
	Why   string        `json:"why,omitempty"`
}

// Confirm makes a transaction on trial stay.
type Confirm struct {
	ID   int       `json:"id"`
	Time time.Time `json:"time"`
	User string    `json:"user"`
	// Note and Caller are as those of Begin.
	Note   string       `json:"note,omitempty"`
	Caller *host.Caller `json:"caller,omitempty"`
}

// record is one line of the file; exactly one field beside Seq is set.
type record struct {
	Seq     int64    `json:"seq"`
	Start   *start   `json:"start,omitempty"`
	Begin   *Begin   `json:"begin,omitempty"`
	Stage   *stage   `json:"stage,omitempty"`
	Commit  *Commit  `json:"commit,omitempty"`
	Confirm *Confirm `json:"confirm,omitempty"`
}

// start is the first record of a file: what the closed files before it used up,
// and what of them still stands. Its number goes on where they ended.
type start struct {
	Version int       `json:"version"`
	NextID  int       `json:"next_id"`
	Carried []carried `json:"carried,omitempty"`
}

// carried is a transaction that still stood when the file that has its records
// was set aside, as it was then.
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
	Orig    *setting.Value `json:"orig,omitempty"` // where it is not Before.Before
	After   *setting.Value `json:"after,omitempty"`
	Verdict string         `json:"verdict,omitempty"`
	Why     string         `json:"why,omitempty"`
	State   EntryState     `json:"state,omitempty"` // live where empty
	Undoing bool           `json:"undoing,omitempty"`
}

// stage is one batch of before-images of a transaction.
type stage struct {
	ID      int      `json:"id"`
	Entries []Before `json:"entries"`
}

var crcTable = sync.OnceValue(func() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) })

// encode makes a line: the CRC-32C of the JSON text in eight hexadecimal
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

// errNewer says that a record is whole and of a kind that this version does not
// know. Going on would mean to undo less than was done.
var errNewer = errors.New("written by a newer fettle, which has to undo it")

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
