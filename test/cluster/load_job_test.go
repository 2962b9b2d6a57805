package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// TestLoadJob: the Job that fettle load http --manifest prints runs on a real node: it loads
// the server that it was told to, completes, and its log has the record of the run; with a
// gate that no server meets, it fails with the exit code of that.
func TestLoadJob(t *testing.T) {
	if !Inside(t, Setup{Node: true, Nightly: true, Programs: []string{"./cmd/fettle"}}) {
		return
	}
	c := Start(t, Options{Node: "node1"})
	const image = "fettle.test/fettle:1"
	c.Image(image, filepath.Join(programDir, "fettle"))
	listener, err := net.Listen("tcp", nodeAddress+":0")
	c.must(err)
	var served atomic.Int64
	web := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		fmt.Fprintln(w, "here")
	})}
	go func() { _ = web.Serve(listener) }()
	t.Cleanup(func() { _ = web.Close() })
	at := listener.Addr().String()

	type record struct {
		Schema, ID, Kind string
		ExitCode         int `json:"exit_code"`
		Body             struct {
			Whole struct{ Starts, Errors int64 }
			Gates []struct{ Met bool }
		}
	}
	run := func(expect string, want int32) (r record) {
		t.Helper()
		out, err := exec.Command("fettle", "load", "http", "--manifest", "--image", image, "--rate", "50/s", "--for", "4s", "--warm-up", "0s", "--expect", expect, "--allow", at, "http://"+at+"/").Output()
		if err != nil {
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				t.Fatalf("%v: %s", err, exit.Stderr)
			}
			t.Fatal(err)
		}
		var job batch.Job
		if err := yaml.UnmarshalStrict(out, &job); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		jobs := c.Client.BatchV1().Jobs(core.NamespaceDefault)
		_, err = jobs.Create(t.Context(), &job, meta.CreateOptions{})
		c.must(err)
		var pod core.Pod
		c.Wait("the pod of the Job to end", 3*time.Minute, func(ctx context.Context) error {
			pods, err := c.Client.CoreV1().Pods(core.NamespaceDefault).List(ctx, meta.ListOptions{LabelSelector: "job-name=" + job.Name})
			if err != nil || len(pods.Items) != 1 {
				return fmt.Errorf("%d pods, %w", len(pods.Items), err)
			}
			if pod = pods.Items[0]; pod.Status.Phase != core.PodSucceeded && pod.Status.Phase != core.PodFailed {
				return fmt.Errorf("it is %s: %+v", pod.Status.Phase, pod.Status.ContainerStatuses)
			}
			return nil
		})
		stream, err := c.Client.CoreV1().Pods(core.NamespaceDefault).GetLogs(pod.Name, &core.PodLogOptions{}).Stream(t.Context())
		c.must(err)
		defer stream.Close()
		log, err := io.ReadAll(stream)
		c.must(err)
		end := pod.Status.ContainerStatuses[0].State.Terminated
		if end != nil && end.ExitCode == 1 && strings.Contains(string(log), "the generator was the limit") {
			t.Logf("this machine was too busy for a verdict on %s", expect)
			want = 1
		}
		if end == nil || end.ExitCode != want {
			t.Fatalf("the container ended with %+v, want exit code %d\n%s", end, want, log)
		}
		c.Wait("the Job to have ended", time.Minute, func(ctx context.Context) error {
			now, err := jobs.Get(ctx, job.Name, meta.GetOptions{})
			if err == nil && now.Status.Succeeded+now.Status.Failed != 1 {
				err = fmt.Errorf("%+v", now.Status)
			}
			return err
		})
		// What is talk comes before the document, in one log.
		begin := strings.Index("\n"+string(log), "\n{")
		if begin < 0 {
			t.Fatalf("the log has no record:\n%s", log)
		}
		if err := json.NewDecoder(strings.NewReader(string(log)[begin:])).Decode(&r); err != nil {
			t.Fatalf("%v\n%s", err, log)
		}
		background := meta.DeletePropagationBackground
		c.must(jobs.Delete(t.Context(), job.Name, meta.DeleteOptions{PropagationPolicy: &background}))
		c.Wait("the Job to be gone", time.Minute, func(ctx context.Context) error {
			pods, err := c.Client.CoreV1().Pods(core.NamespaceDefault).List(ctx, meta.ListOptions{LabelSelector: "job-name=" + job.Name})
			if err == nil && len(pods.Items) > 0 {
				err = errors.New("its pod is there")
			}
			return err
		})
		return r
	}
	r := run("p50 < 30s", 0)
	if r.Kind != "load-http" || r.ID == "" || r.Body.Whole.Starts < 190 || r.Body.Whole.Starts > 210 || r.Body.Whole.Errors != 0 || served.Load() < r.Body.Whole.Starts || len(r.Body.Gates) != 1 || r.ExitCode == 0 && !r.Body.Gates[0].Met {
		t.Errorf("%+v, the server has answered %d", r, served.Load())
	}
	t.Logf("the Job sent %d requests, the server answered %d", r.Body.Whole.Starts, served.Load())
	if r := run("p50 < 1us", 3); r.ExitCode == 0 || len(r.Body.Gates) != 1 || r.Body.Gates[0].Met {
		t.Errorf("%+v", r)
	}
}
