package cluster

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
)

// guard accepts requests with the token of a user who may get the path (a rule with
// nonResourceURLs). controller-runtime has such a filter too, but it links the API server's
// packages.
type guard struct {
	tokens authenticationclient.TokenReviewInterface
	access authorizationclient.SubjectAccessReviewInterface
	now    func() time.Time

	mu    sync.Mutex
	known map[[sha256.Size]byte]answer
}

// answer is the cached decision about a token and a path, as an HTTP status.
type answer struct {
	status int
	until  time.Time
}

const (
	// Lifetimes of cached decisions. A revoked right remains effective for that long.
	letInFor, keptOutFor = time.Minute, 10 * time.Second
	// Limits of requests to the API server, because any client can send invalid tokens.
	asksPerSecond, asksAtOnce = 5, 10
	// askFor limits one request.
	askFor = 5 * time.Second
	// mostKnown limits the number of cached decisions.
	mostKnown = 1000
)

func newGuard(config *rest.Config, client *http.Client) (*guard, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst, config.RateLimiter = asksPerSecond, asksAtOnce, nil
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	tokens, err := authenticationclient.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, err
	}
	access, err := authorizationclient.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, err
	}
	return &guard{
		tokens: tokens.TokenReviews(), access: access.SubjectAccessReviews(),
		now: time.Now, known: map[[sha256.Size]byte]answer{},
	}, nil
}

// around returns a handler that calls next only for authorized requests.
func (g *guard) around(log logr.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			http.Error(w, "only GET", http.StatusMethodNotAllowed)
			return
		}
		status, err := g.ask(r.Context(), r.Header.Get("Authorization"), r.URL.Path)
		if err != nil {
			log.Error(err, "cannot authenticate the client of /metrics")
		}
		switch status {
		case http.StatusOK:
			next.ServeHTTP(w, r)
			return
		case http.StatusUnauthorized:
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		http.Error(w, http.StatusText(status), status)
	})
}

// ask returns the HTTP status for a request; err says why it could not decide.
func (g *guard) ask(ctx context.Context, header, path string) (status int, err error) {
	scheme, token, _ := strings.Cut(header, " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "Bearer") || token == "" {
		return http.StatusUnauthorized, nil
	}
	key := sha256.Sum256([]byte(token + "\x00" + path))
	g.mu.Lock()
	a, ok := g.known[key]
	g.mu.Unlock()
	if ok && g.now().Before(a.until) {
		return a.status, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	if status, err = g.review(ctx, token, path); err != nil {
		return http.StatusServiceUnavailable, err
	}
	g.keep(key, status)
	return status, nil
}

// review asks the API server for the token's user, and whether the user may get the path.
func (g *guard) review(ctx context.Context, token, path string) (int, error) {
	who, err := g.tokens.Create(ctx, &authentication.TokenReview{Spec: authentication.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("cannot review the client's token: %w", err)
	}
	if !who.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	user := who.Status.User
	question := &authorization.SubjectAccessReview{Spec: authorization.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: map[string]authorization.ExtraValue{},
		NonResourceAttributes: &authorization.NonResourceAttributes{Path: path, Verb: "get"},
	}}
	for name, value := range user.Extra {
		question.Spec.Extra[name] = authorization.ExtraValue(value)
	}
	may, err := g.access.Create(ctx, question, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("cannot review the client's access: %w", err)
	}
	if !may.Status.Allowed {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}

func (g *guard) keep(key [sha256.Size]byte, status int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	if len(g.known) >= mostKnown {
		for k, a := range g.known {
			if a.status != http.StatusOK || !now.Before(a.until) {
				delete(g.known, k)
			}
		}
	}
	if len(g.known) >= mostKnown {
		return // the cache is full: the next request is checked each time
	}
	holds := keptOutFor
	if status == http.StatusOK {
		holds = letInFor
	}
	g.known[key] = answer{status, now.Add(holds)}
}
