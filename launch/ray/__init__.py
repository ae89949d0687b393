"""The topology `ray`: one driver, actors, a learner, replay servers."""
