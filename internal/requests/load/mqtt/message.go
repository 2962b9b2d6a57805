package mqtt

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// notification is a message to yggdrasil/HOST/data/in that announces a job
// (smart_proxy_remote_execution_ssh, actions/pull_script.rb, mqtt_start).
type notification struct {
	Type      string   `json:"type"`
	MessageID string   `json:"message_id"`
	Version   int      `json:"version"`
	Sent      string   `json:"sent"`
	Directive string   `json:"directive"`
	Content   string   `json:"content"` // URL of the job
	Metadata  metadata `json:"metadata"`
}

type metadata struct {
	Event     string `json:"event"`
	JobUUID   string `json:"job_uuid"`
	ReturnURL string `json:"return_url"` // receives the output
	Version   string `json:"version"`
}

// topics returns the topics that a host subscribes to.
func topics(host string) []string {
	return []string{jobTopic(host), "yggdrasil/" + host + "/control/in"}
}

func jobTopic(host string) string { return "yggdrasil/" + host + "/data/in" }

// numbering creates the identifiers of a round. They are valid UUIDs that end with the job's
// number, so replies need no lookup.
type numbering struct {
	run   [6]byte // random
	round uint16
}

func (n numbering) prefix() string {
	r := hex.EncodeToString(n.run[:])
	return fmt.Sprintf("%s-%s-4%03x-", r[:8], r[8:], n.round&0xfff)
}

// uuid returns the UUID of a job (attempt 0), or of the attempt-th message about it.
func (n numbering) uuid(job, attempt int) string {
	return fmt.Sprintf("%s%04x-%012x", n.prefix(), 0x8000|attempt&0x3fff, job)
}

// parse splits a UUID of this round. ok is false for any other UUID.
func (n numbering) parse(uuid string) (job, attempt int, ok bool) {
	rest, ok := strings.CutPrefix(uuid, n.prefix())
	if !ok || len(rest) != len("8000-000000000000") || rest[4] != '-' {
		return 0, 0, false
	}
	a, err1 := strconv.ParseUint(rest[:4], 16, 16)
	j, err2 := strconv.ParseUint(rest[5:], 16, 48)
	if err1 != nil || err2 != nil || a&^0x3fff != 0x8000 || n.uuid(int(j), int(a)) != uuid {
		return 0, 0, false
	}
	return int(j), int(a & 0x3fff), true
}

// notify encodes a notification as JSON. base is the URL of the jobs, or empty.
func (n numbering) notify(job, attempt int, base string, now time.Time) []byte {
	m := notification{
		Type: "data", MessageID: n.uuid(job, attempt), Version: 1, Sent: now.Format(time.RFC3339), Directive: "foreman",
		Metadata: metadata{Event: "start", JobUUID: n.uuid(job, 0), Version: "v1"},
	}
	if base != "" {
		m.Content = base + "/" + m.Metadata.JobUUID
		m.Metadata.ReturnURL = m.Content + "/update"
	}
	text, err := json.Marshal(m)
	if err != nil {
		panic(err) // encoding strings and numbers cannot fail
	}
	return text
}

// read parses a notification of this round. ok is false for any other message. Such a message
// must not cause a fetch.
func (n numbering) read(text []byte) (job, attempt int, ok bool) {
	var m notification
	if json.Unmarshal(text, &m) != nil || m.Directive != "foreman" || m.Metadata.Event != "start" {
		return 0, 0, false
	}
	job, _, ok = n.parse(m.Metadata.JobUUID)
	same, attempt, whole := n.parse(m.MessageID)
	return job, attempt, ok && whole && same == job
}

// report is the body that a host posts about its job (foreman_ygg_worker, types.go). It has a
// piece of output or the exit code.
type report struct {
	Version string   `json:"version"`
	Updates []update `json:"updates"`
}

type update struct {
	Timestamp string `json:"timestamp"`
	Type      string `json:"type"` // output or exit
	Content   string `json:"content,omitempty"`
	Stream    string `json:"stream,omitempty"`
	ExitCode  *int   `json:"exit_code,omitempty"`
}

// outputBytes is the size of the output in each report except the last.
const outputBytes = 1000

// output is about as much as a package manager prints in five seconds.
var output = strings.Repeat("  Upgrading        : a-package-of-the-job-1:2.3.4-5.el9.x86_64\n", 20)[:outputBytes]

// reportOf encodes a report: with output, or with end, the exit code.
func reportOf(now time.Time, end bool) []byte {
	u := update{Timestamp: now.Format(time.RFC3339Nano), Type: "output", Content: output, Stream: "stdout"}
	if end {
		u.Type, u.Content, u.Stream, u.ExitCode = "exit", "", "", new(int)
	}
	text, err := json.Marshal(report{"1", []update{u}})
	if err != nil {
		panic(err) // encoding strings and numbers cannot fail
	}
	return text
}
