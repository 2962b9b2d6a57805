package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/machine"
	"fettle.dev/fettle/kube/operator"
)

// MachineHealth is the result of a cluster's machine health checks.
type MachineHealth struct {
	Schema    string      `json:"schema"` // fettle/machine-health/v1
	Headline  ui.Headline `json:"headline"`
	Namespace string      `json:"namespace"`
	// ReportOnly names another controller that remediates machines by these checks. If it is set,
	// the operator only reports.
	ReportOnly string `json:"report_only"`
	// Waits are the conditions for which remediation waits.
	Waits  []string      `json:"waits"`
	Checks []CheckHealth `json:"checks"`
	// ClusterAPI are Cluster API's checks, which are only explained.
	ClusterAPI []ClusterCheck `json:"cluster_api"`
}

// CheckHealth is the result of one machine health check.
type CheckHealth struct {
	Check     string `json:"check"`
	Expected  int    `json:"expected_machines_count"`
	Healthy   int    `json:"current_healthy_count"`
	Unhealthy int    `json:"unhealthy_count"`
	// Allowed is how many more machines may become unhealthy before the check stops remediation.
	Allowed int `json:"remediations_allowed_count"`
	// Open reports whether the limit allows remediation; Words describe the decision.
	Open  bool     `json:"open"`
	Words []string `json:"words"`
	// Machines are the unhealthy machines.
	Machines []MachineState `json:"machines"`
	// Error is why the check is invalid, or "".
	Error string `json:"error"`
}

// MachineState is a machine's state according to a check.
type MachineState struct {
	Machine string `json:"machine"`
	Node    string `json:"node"`
	State   string `json:"state"` // pending, unhealthy or leaving
	Why     string `json:"why"`
}

// ClusterCheck is a health check of Cluster API.
type ClusterCheck struct {
	Namespace string `json:"namespace"`
	Check     string `json:"check"`
	Words     string `json:"words"`
}

func healthCommand(a *app) *cobra.Command {
	var details bool
	c := &cobra.Command{
		Use: "health [CHECK]...", Short: "Explain MachineHealthChecks and pending remediation",
		Long: `Explains the MachineHealthChecks (machine.openshift.io/v1beta1) of a namespace: all of
them, or the named ones. It shows which machines are unhealthy and why, how maxUnhealthy
is calculated, and what remediation waits for. It also names other controllers that
remediate the same machines, and explains the health checks of Cluster API. It changes
nothing, and needs no operator.`,
		Args: cobra.ArbitraryArgs,
		RunE: a.reading(func(ctx context.Context, names []string) error { return a.health(ctx, names, details) }),
	}
	c.Flags().BoolVar(&details, "details", false, "list all checks and machines")
	return c
}

func (a *app) health(ctx context.Context, names []string, details bool) error {
	config, err := a.config()
	if err != nil {
		return err
	}
	api, err := cluster.Client(within(ctx, config), operator.HealthScheme())
	if err != nil {
		return err
	}
	doc := &MachineHealth{Schema: "fettle/machine-health/v1", Namespace: a.namespaceOr(machine.Namespace), Waits: []string{}, Checks: []CheckHealth{}, ClusterAPI: []ClusterCheck{}}
	found, err := (&machine.Reader{API: api, Mapper: api.RESTMapper(), Namespaces: []string{doc.Namespace}, Once: true}).Read(ctx, time.Now())
	if err != nil {
		return err
	}
	doc.ReportOnly, doc.Waits = found.Rivals[doc.Namespace], append(doc.Waits, found.Pauses...)
	for _, c := range found.ClusterAPI {
		doc.ClusterAPI = append(doc.ClusterAPI, ClusterCheck{c.Namespace, c.Name, c.Words})
	}
	served := machine.Served(api.RESTMapper())
	switch {
	case errors.Is(served, machine.ErrNotServed) && len(doc.ClusterAPI) > 0 && len(names) == 0:
	case served != nil:
		return ui.Exit(ui.Failed, served)
	default:
		if err := doc.look(ctx, api, found, names); err != nil {
			return err
		}
	}
	doc.Headline = doc.headline()
	return a.show(doc, nil, func() { a.printHealth(doc, details || len(names) > 0) })
}

// look evaluates the checks. Together they remediate one machine at a time.
func (d *MachineHealth) look(ctx context.Context, api client.Reader, found *machine.Found, names []string) error {
	in := []string{d.Namespace}
	checks, err := machine.Checks(ctx, api, in)
	if err != nil {
		return err
	}
	machines, err := machine.Machines(ctx, api, in)
	if err != nil {
		return err
	}
	nodes, err := cluster.Live(ctx, api)
	if err != nil {
		return err
	}
	for _, a := range found.Cluster(checks, machines, nodes, time.Now()).Decide() {
		if len(names) == 0 || slices.Contains(names, a.Check.Name) {
			d.Checks = append(d.Checks, checkHealth(&a))
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(d.Checks, func(c CheckHealth) bool { return c.Check == name }) {
			return ui.WithoutWord(fmt.Errorf("MachineHealthCheck %s not found in %s", name, d.Namespace), name)
		}
	}
	return nil
}

func checkHealth(d *machine.Answer) CheckHealth {
	out := CheckHealth{Check: d.Check.Name, Words: []string{}, Machines: []MachineState{}}
	if d.Err != nil {
		out.Error = d.Err.Error()
		return out
	}
	out.Expected, out.Healthy, out.Unhealthy, out.Allowed = d.Expected, d.Healthy, d.Unhealthy, d.Allowed
	out.Open, out.Words = d.Limit.Open(d.Unhealthy), d.Words()
	for _, j := range d.Machines {
		if j.State != machine.Healthy {
			out.Machines = append(out.Machines, MachineState{j.Machine.Name, j.Machine.Node(), j.State, j.Why})
		}
	}
	return out
}

// headline counts the unhealthy machines, and the checks that do not remediate.
func (d *MachineHealth) headline() (h ui.Headline) {
	expected, healthy, closed, unreadable := 0, 0, 0, 0
	for _, c := range d.Checks {
		expected += c.Expected
		healthy += c.Healthy
		switch {
		case c.Error != "":
			unreadable++
		case !c.Open:
			closed++
		}
	}
	if len(d.Checks) == 0 {
		h.Line("there are no MachineHealthChecks in %s; %s of Cluster API", d.Namespace, h.Count("cluster_api_checks", len(d.ClusterAPI), "check"))
		return h
	}
	line := fmt.Sprintf("%s: %s of %s healthy", h.Count("checks", len(d.Checks), "check"), h.Count("healthy", healthy, ""), h.Count("machines", expected, "machine"))
	if closed > 0 {
		line += fmt.Sprintf("; over the limit of unhealthy machines: %s", h.Count("checks_over_limit", closed, "check"))
	}
	if unreadable > 0 {
		line += fmt.Sprintf("; cannot be read: %s", h.Count("checks_unreadable", unreadable, "check"))
	}
	h.Line("%s", line)
	return h
}

// Limits of the checks and machines shown without --details.
const (
	shownChecks   = 4
	shownMachines = 12
)

// printHealth prints the checks; those that need attention come first.
func (a *app) printHealth(doc *MachineHealth, details bool) {
	s := a.screen
	ui.PrintHeadline(s, &doc.Headline)
	checks := slices.Clone(doc.Checks)
	rank := func(c CheckHealth) int {
		switch {
		case c.Error != "":
			return 0
		case !c.Open:
			return 1
		case len(c.Machines) > 0:
			return 2
		}
		return 3
	}
	slices.SortStableFunc(checks, func(x, y CheckHealth) int { return rank(x) - rank(y) })
	room := shownMachines
	if details {
		room = math.MaxInt
	} else {
		checks = checks[:min(len(checks), shownChecks)]
	}
	machines, next := 0, ""
	for _, c := range checks {
		shown := c.Machines[:min(len(c.Machines), room)]
		room -= len(shown)
		machines += len(c.Machines) - len(shown)
		if len(shown) > 0 {
			next = cmp.Or(next, shown[0].Machine)
		}
		printCheck(s, &c, shown)
	}
	for _, c := range doc.ClusterAPI {
		ui.PrintLine(s, "%s/%s of Cluster API: %s", c.Namespace, c.Check, c.Words)
	}
	notShown(s, text.Count(len(doc.Checks)-len(checks), "check"), text.Count(machines, "machine"))
	if next != "" {
		ui.Heading(s, "What happened to the first machine:")
		ui.PrintCommand(s, fmt.Sprintf("kubectl -n %s describe machines.machine.openshift.io %s", doc.Namespace, next))
	}
}

// printCheck prints a check and its first machines.
func printCheck(s *ui.Screen, c *CheckHealth, machines []MachineState) {
	fmt.Fprintln(s.Out)
	if c.Error != "" {
		ui.PrintLine(s, "%s: cannot be read: %s", c.Check, c.Error)
		return
	}
	ui.PrintLine(s, "%s: %d of %d healthy; %s", c.Check, c.Healthy, c.Expected, strings.Join(c.Words[:1], ""))
	g := ui.Grid{Columns: []ui.Column{{Head: "machine"}, {Head: "node"}, {Head: "state"}, {Head: "why", Below: true}}}
	for _, m := range machines {
		g.Rows = append(g.Rows, []string{m.Machine, dash(m.Node), m.State, m.Why})
	}
	if len(g.Rows) > 0 {
		g.Write(s)
	}
	for _, w := range c.Words[1:] {
		ui.PrintLine(s, "- %s", w)
	}
}
