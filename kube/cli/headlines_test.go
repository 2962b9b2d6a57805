package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/testkit/calls"
)

// withoutHeadline has the kinds of documents without a headline, and the reasons.
var withoutHeadline = map[string]string{
	"error": "the message is the answer", "version": "one line",
	"load-http": "part of a run", "load-scenario": "part of a run",
	"node-history": "an annotation of a Profile object", "node-values": "an annotation of a Profile object",
}

// TestDocumentsHaveHeadlines: each kind of JSON output has a headline in its schema, unless the
// table says why not.
func TestDocumentsHaveHeadlines(t *testing.T) { calls.Headlines(t, documents, withoutHeadline) }

// documentOf has the kind of document that each verb prints, or in parentheses the reason that
// it prints none.
var documentOf = map[string]string{
	"status": "node-status", "pod explain": "pod-admission", "pod record": "(writes the answers of a kubelet", "pod verify": "pod-verify", "health": "machine-health",
	"kubelet plan": "kubelet-plan", "check": "check", "scale plan": "scale-plan", "scale execute": "scale-run",
	"load plan": "cluster-load-plan", "load run": "cluster-load-run", "load resume": "cluster-load-run", "load status": "cluster-load-status", "load undo": "cluster-load-undo",
	"load compare": "compare", "load mirror": "cluster-load-mirror", "load http": "run", "load scenario": "run", "load scenario undo": "scenario-undo", "logs": "logs", "operator": "(runs until it is ended", "agent": "(runs until it is ended", "uninstall": "uninstall",
	"size hugepages": "size", "size httpd": "size", "size network": "size", "size openshift": "size", "size postgresql": "size", "size puppet": "size", "size router": "size", "size satellite": "size",
	"schema": "(a schema", "version": "(one line",
}

// TestVerbsHaveDocuments: each verb and sub-verb prints a document with a headline, or the table
// says why not.
func TestVerbsHaveDocuments(t *testing.T) {
	left := map[string]bool{}
	for verb := range documentOf {
		left[verb] = true
	}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			if !sub.Hidden && sub.Name() != "help" && sub.Name() != "completion" && (sub.Runnable() || sub.HasSubCommands()) {
				walk(sub)
			}
		}
		verb := strings.TrimPrefix(c.CommandPath(), "kubectl fettle ")
		if c.HasAvailableSubCommands() && verb != "load scenario" {
			return
		}
		kind, listed := documentOf[verb]
		delete(left, verb)
		if _, known := documents[kind]; !listed || !known && !strings.HasPrefix(kind, "(") || withoutHeadline[kind] != "" {
			t.Errorf("kubectl fettle %s: kind of document %q", verb, kind)
		}
	}
	walk(tree("test"))
	for verb := range left {
		t.Errorf("documentOf has %s, which is not a verb", verb)
	}
}
