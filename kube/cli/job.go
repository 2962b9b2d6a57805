package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/yaml"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/job"
	"fettle.dev/fettle/kube/load/mux"
)

// podOptions are the options of verbs that run fettle in the pods of a Job.
type podOptions struct {
	count       int
	image       string
	cpu, memory string
	startWithin time.Duration
}

// flags adds the flags, with the checks of their values.
func (o *podOptions) flags(c *cobra.Command, cpu, memory string) {
	f := c.Flags()
	f.StringVar(&o.image, "image", "", "container image of fettle, of this version")
	f.StringVar(&o.cpu, "cpu", cpu, "CPU that each pod requests, such as 500m or 2")
	f.StringVar(&o.memory, "memory", memory, "memory that each pod requests, which is also its limit, such as 1Gi")
	f.DurationVar(&o.startWithin, "start-within", 2*time.Minute, "maximum time until all pods run, such as 5m")
	cliutil.Between(f, "start-within", time.Second, time.Hour, 2*time.Minute)
	cliutil.Reads(f, "cpu", "500m", quantity)
	cliutil.Reads(f, "memory", "256Mi", enoughMemory)
	cliutil.Check(c, func([]string) error {
		if o.image == "" {
			return ui.Retry(ui.Usage, errors.New("--image is missing: a container image of fettle, of this version"), "", "--image=registry.example/fettle:1")
		}
		return nil
	})
}

// quantity rejects words that are not positive quantities of Kubernetes.
func quantity(word string) error {
	q, err := resource.ParseQuantity(word)
	if err == nil && q.Sign() <= 0 {
		err = errors.New("want more than 0")
	}
	if err != nil {
		return errors.New("want a quantity of Kubernetes above 0, such as 500m, 2 or 1Gi")
	}
	return nil
}

// leastMemory is the smallest memory limit with which a container starts reliably: less is
// usually a number without its unit.
var leastMemory = resource.MustParse("16Mi")

// enoughMemory rejects words that are not quantities of at least leastMemory.
func enoughMemory(word string) error {
	if err := quantity(word); err != nil {
		return err
	}
	if q := resource.MustParse(word); q.Cmp(leastMemory) < 0 {
		return fmt.Errorf("want at least %s", &leastMemory)
	}
	return nil
}

// jobSet returns the request for a Job, and the connections to the cluster. Without connect it asks
// no cluster. The Job's name begins with prefix.
func (a *app) jobSet(o *podOptions, prefix string, connect bool) (*job.Set, error) {
	namespace, err := a.namespaceOfContext()
	if !connect && err != nil {
		namespace, err = a.namespaceOr("default"), nil
	}
	if err != nil {
		return nil, err
	}
	name := prefix + "-example"
	if connect {
		name = prefix + "-" + utilrand.String(5)
	}
	set := &job.Set{Request: job.Request{Namespace: namespace, Name: name, Image: o.image, Count: o.count, CPU: resource.MustParse(o.cpu), Memory: resource.MustParse(o.memory)}}
	if !connect {
		return set, nil
	}
	if set.Config, err = a.config(); err != nil {
		return nil, err
	}
	if set.Server, err = mux.Connect(set.Config, 1); err != nil {
		return nil, ui.Exit(ui.Usage, err)
	}
	return set, nil
}

// printObjects prints objects that would be created: as YAML, or as JSON, several as one List.
func (a *app) printObjects(objects ...any) error {
	var all []any
	for _, object := range objects {
		// Kubernetes sets the status, which has no omitempty.
		content, err := json.Marshal(object)
		if err != nil {
			return err
		}
		var fields map[string]any
		if err := json.Unmarshal(content, &fields); err != nil {
			return err
		}
		delete(fields, "status")
		all = append(all, fields)
	}
	if a.screen.Format == ui.JSON {
		printed := any(map[string]any{"apiVersion": "v1", "kind": "List", "items": all})
		if len(all) == 1 {
			printed = all[0]
		}
		e := json.NewEncoder(a.screen.Out)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(printed)
	}
	for _, fields := range all {
		printed, err := yaml.Marshal(fields)
		if err != nil {
			return err
		}
		fmt.Fprintf(a.screen.Out, "---\n%s", printed)
	}
	return nil
}

// mayCreate returns an error if this user lacks a right.
func (a *app) mayCreate(ctx context.Context, set *job.Set, needed []job.Right) error {
	missing, err := set.Missing(ctx, needed)
	var rights []string
	for _, r := range missing {
		rights = append(rights, r.String())
	}
	switch {
	case ctx.Err() != nil:
		return interruptedWith("nothing was created")
	case err != nil:
		return err
	case len(missing) > 0:
		return ui.Hinted(ui.Failed, fmt.Errorf("nothing was created: rights are missing in namespace %s: %s", set.Namespace, strings.Join(rights, ", ")), "the manual page has a Role with all of them; kubectl auth can-i --list --namespace "+set.Namespace+" shows yours")
	}
	return nil
}

// sayCreates reports what will be created, and until when it can exist.
func (a *app) sayCreates(set *job.Set, o *podOptions, more string) {
	a.screen.Say("creating Job %s with %s%s in namespace %s, each pod with %s of memory and a request for CPU %s; Kubernetes ends it at %s at the latest", set.Name, text.Count(set.Count, "pod"), more, set.Namespace, o.memory, o.cpu, time.Now().Add(set.Deadline).Local().Format(time.TimeOnly))
}

// inJob creates a Job, calls use, and deletes the Job. use may delete it earlier, with end.
func (a *app) inJob(ctx context.Context, set *job.Set, create func(context.Context) error, use func(end func() error) error) (err error) {
	var once sync.Once
	remove := func() (err error) {
		once.Do(func() {
			if err = set.Delete(ctx); err != nil {
				err = ui.Hinted(ui.Incomplete, err, fmt.Sprintf("Kubernetes removes it after its deadline, or: kubectl delete job %s --namespace %s", set.Name, set.Namespace))
			}
		})
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	if err := create(ctx); err != nil {
		return interruptedOr(ctx, err, "nothing was sent")
	}
	return use(remove)
}

func interruptedWith(left string) error {
	return ui.Exit(ui.Interrupted, errors.New("interrupted: "+left))
}

func interruptedOr(ctx context.Context, err error, left string) error {
	if ctx.Err() != nil {
		return interruptedWith(left)
	}
	return err
}
