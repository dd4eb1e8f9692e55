package stats

import (
	"encoding/json"
	"net/http"
)

// ServeSummary serves /stats/summary; with only_cpu_and_memory=true it has no more than that.
func (p *Provider) ServeSummary() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		brief := r.URL.Query().Get("only_cpu_and_memory") == "true"
		summary, err := p.Summary(r.Context(), p.Period(), brief)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(summary) // a caller that is gone needs none
	})
}
