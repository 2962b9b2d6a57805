package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// standIn is an API server as far as the operator uses one: it lists and watches the kinds below,
// and creates, patches and deletes their objects. It validates nothing; test/cluster uses a real
// one.
type standIn struct {
	*httptest.Server
	mu       sync.Mutex
	version  int
	objects  map[string]map[string]map[string]any // by resource and NAMESPACE/NAME
	watchers map[string][]chan []byte             // by resource
	told     map[string][]event                   // by resource, all from the beginning on
	writes   map[string]int                       // by method and resource; LIST too
}

// event is an event for watchers.
type event struct {
	version int
	text    []byte
}

// served are the kinds: resource, and its entry in the discovery.
var served = []struct {
	group, version, resource, kind string
	namespaced                     bool
}{
	{"", "v1", "nodes", "Node", false},
	{"", "v1", "events", "Event", true},
	{"tuned.openshift.io", "v1", "tuneds", "Tuned", true},
	{"tuned.openshift.io", "v1", "profiles", "Profile", true},
	{"machine.openshift.io", "v1beta1", "machines", "Machine", true},
	{"machine.openshift.io", "v1beta1", "machinehealthchecks", "MachineHealthCheck", true},
}

func newStandIn(t *testing.T) *standIn {
	s := &standIn{objects: map[string]map[string]map[string]any{}, watchers: map[string][]chan []byte{}, told: map[string][]event{}, writes: map[string]int{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// put stores an object and notifies the watchers.
func (s *standIn) put(resource string, o map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store(resource, o)
}

func (s *standIn) store(resource string, o map[string]any) {
	if s.objects[resource] == nil {
		s.objects[resource] = map[string]map[string]any{}
	}
	key := keyOf(o)
	_, was := s.objects[resource][key]
	s.version++
	meta := o["metadata"].(map[string]any)
	meta["resourceVersion"] = fmt.Sprint(s.version)
	if meta["uid"] == nil {
		meta["uid"] = fmt.Sprintf("%s-%d", key, s.version)
	}
	s.objects[resource][key] = o
	s.tell(resource, map[bool]string{false: "ADDED", true: "MODIFIED"}[was], o)
}

func (s *standIn) tell(resource, what string, o map[string]any) {
	text, err := json.Marshal(map[string]any{"type": what, "object": o})
	if err != nil {
		panic(err)
	}
	s.told[resource] = append(s.told[resource], event{s.version, text})
	for _, w := range s.watchers[resource] {
		w <- text
	}
}

func keyOf(o map[string]any) string {
	m := o["metadata"].(map[string]any)
	namespace, _ := m["namespace"].(string)
	return namespace + "/" + m["name"].(string)
}

// all calls f for each object of a resource.
func (s *standIn) all(resource string, f func(o map[string]any)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.objects[resource] {
		f(o)
	}
}

func (s *standIn) wrote(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes[what]
}

func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if answer := discovery(parts); answer != nil {
		_ = json.NewEncoder(w).Encode(answer)
		return
	}
	// /api/v1/RESOURCE, /apis/GROUP/VERSION/namespaces/NAMESPACE/RESOURCE/NAME/status
	rest := parts[min(len(parts), map[bool]int{true: 2, false: 3}[parts[0] == "api"]):]
	namespace, name := "", ""
	if len(rest) > 2 && rest[0] == "namespaces" {
		namespace, rest = rest[1], rest[2:]
	}
	if len(rest) == 0 {
		refuse(w, http.StatusNotFound, "NotFound")
		return
	}
	if len(rest) > 1 {
		name = rest[1]
	}
	switch {
	case r.Method == http.MethodGet && r.URL.Query().Get("watch") != "":
		s.watch(w, r, rest[0])
	case r.Method == http.MethodGet && name == "":
		s.list(w, rest[0], namespace)
	default:
		s.one(w, r, rest[0], namespace+"/"+name)
	}
}

// discovery returns the served kinds; nil for another request.
func discovery(parts []string) any {
	var groups []any
	for _, k := range served {
		if k.group != "" {
			v := map[string]any{"groupVersion": k.group + "/" + k.version, "version": k.version}
			groups = append(groups, map[string]any{"name": k.group, "versions": []any{v}, "preferredVersion": v})
		}
	}
	path := strings.Join(parts, "/")
	switch path {
	case "api":
		return map[string]any{"kind": "APIVersions", "versions": []any{"v1"}}
	case "apis":
		return map[string]any{"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
	}
	var resources []any
	for i, k := range served {
		if path == "apis/"+k.group && k.group != "" {
			return groups[i-2]
		}
		if path == "api/"+k.version && k.group == "" || path == "apis/"+k.group+"/"+k.version {
			resources = append(resources, map[string]any{"name": k.resource, "kind": k.kind, "namespaced": k.namespaced, "verbs": []any{"get", "list", "watch"}})
		}
	}
	if resources == nil {
		return nil
	}
	return map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": strings.TrimPrefix(strings.TrimPrefix(path, "apis/"), "api/"), "resources": resources}
}

func (s *standIn) list(w http.ResponseWriter, resource, namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes["LIST "+resource]++
	items := []any{}
	for key, o := range s.objects[resource] {
		if namespace == "" || strings.HasPrefix(key, namespace+"/") {
			items = append(items, o)
		}
	}
	for _, k := range served {
		if k.resource == resource {
			version := strings.TrimPrefix(k.group+"/"+k.version, "/")
			_ = json.NewEncoder(w).Encode(map[string]any{"kind": k.kind + "List", "apiVersion": version, "metadata": map[string]any{"resourceVersion": fmt.Sprint(s.version)}, "items": items})
			return
		}
	}
	refuse(w, http.StatusNotFound, "NotFound")
}

// watch sends the changes since the given list, or first all objects and then the changes
// (sendInitialEvents).
func (s *standIn) watch(w http.ResponseWriter, r *http.Request, resource string) {
	since, err := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	streamed := r.URL.Query().Get("sendInitialEvents") == "true"
	if err != nil && !streamed {
		refuse(w, http.StatusBadRequest, "BadRequest") // no client watches without a list before
		return
	}
	s.mu.Lock()
	events := make(chan []byte, 10000+len(s.told[resource])+len(s.objects[resource]))
	if streamed {
		since = s.version
		s.stream(resource, events)
	}
	for _, e := range s.told[resource] {
		if e.version > since {
			events <- e.text
		}
	}
	s.watchers[resource] = append(s.watchers[resource], events)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.watchers[resource] = slices.DeleteFunc(s.watchers[resource], func(c chan []byte) bool { return c == events })
	}()
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case text := <-events:
			_, _ = w.Write(append(text, '\n'))
			if len(events) == 0 {
				w.(http.Flusher).Flush()
			}
		}
	}
}

// stream sends all objects, and then the end of the initial list.
func (s *standIn) stream(resource string, events chan<- []byte) {
	send := func(what string, o any) {
		text, err := json.Marshal(map[string]any{"type": what, "object": o})
		if err != nil {
			panic(err)
		}
		events <- text
	}
	for _, o := range s.objects[resource] {
		send("ADDED", o)
	}
	for _, k := range served {
		if k.resource == resource {
			send("BOOKMARK", map[string]any{"kind": k.kind, "apiVersion": strings.TrimPrefix(k.group+"/"+k.version, "/"), "metadata": map[string]any{
				"resourceVersion": fmt.Sprint(s.version), "annotations": map[string]any{"k8s.io/initial-events-end": "true"},
			}})
		}
	}
}

func (s *standIn) one(w http.ResponseWriter, r *http.Request, resource, key string) {
	body, _ := io.ReadAll(r.Body)
	var sent map[string]any
	if len(body) > 0 && json.Unmarshal(body, &sent) != nil {
		refuse(w, http.StatusUnsupportedMediaType, "UnsupportedMediaType") // events come as protobuf
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes[r.Method+" "+resource]++
	o := s.objects[resource][key]
	switch {
	case r.Method == http.MethodPost:
		o = sent
		s.store(resource, o)
		w.WriteHeader(http.StatusCreated)
	case o == nil:
		refuse(w, http.StatusNotFound, "NotFound")
		return
	case r.Method == http.MethodPatch:
		o = merge(o, sent)
		s.store(resource, o)
	case r.Method == http.MethodDelete:
		delete(s.objects[resource], key)
		s.version++
		s.tell(resource, "DELETED", o)
	}
	_ = json.NewEncoder(w).Encode(o)
}

// merge applies RFC 7386's patch to an object, which stays unchanged.
func merge(o, patch map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range o {
		out[k] = v
	}
	for k, v := range patch {
		deeper, is := v.(map[string]any)
		switch was, both := out[k].(map[string]any); {
		case v == nil:
			delete(out, k)
		case is && both:
			out[k] = merge(was, deeper)
		case is:
			out[k] = merge(nil, deeper)
		default:
			out[k] = v
		}
	}
	return out
}

func refuse(w http.ResponseWriter, code int, reason string) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": reason})
}
