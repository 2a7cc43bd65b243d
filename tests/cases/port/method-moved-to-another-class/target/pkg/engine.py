class Admission:
    def admit(self, queue):
        ready = [job for job in queue if job.ready]
        limit = self.limit
        return ready[:limit]


class Scheduler:
    def run(self):
        return 2
